"""The schedule explorer: txlog's own code in every order of its store calls, and under every fault.

It is no part of the package. The stores and faults that it builds on are in ``txlog.testing``.
"""
