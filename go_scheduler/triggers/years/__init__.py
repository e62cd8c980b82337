"""The fire times of a trigger as sets, a year at a time, for what is made of several.

A search that asks for one fire time after the other gets nowhere where millions of them
are left out. A set of times says at once what is left of it. A year is told by its
days, and these by what they have in common: all days on which a cron expression fires
have the same times. So a year is a few sets of times of day, and to each the days that
have it.
"""
