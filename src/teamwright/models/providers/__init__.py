"""The request and event formats of the model services, one module for each."""
