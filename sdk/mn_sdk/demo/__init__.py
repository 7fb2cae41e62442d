"""The demo: a job larger than any window, on real input, killed in the middle and resumed.

`python -m mn_sdk.demo`, or `mn-context-engine demo`. A supervisor (this process) starts a stand-in model on loopback
and a worker process that investigates the input decision by decision; right after one dispatch it kills the worker,
then resumes it, and checks from outside what the engine promises: no request over the window, no call made twice.
"""
