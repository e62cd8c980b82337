"""The suite for stores, a module for each part of the contract."""
