"""What people would use instead, with the best settings that were found for each.

``pip install -e '.[benchmarks]'`` installs them, but for APScheduler 4, which has to
have an environment of its own.
"""
