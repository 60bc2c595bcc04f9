"""Model delivery: signed updates of the models into a verified local store.

Nothing is here yet: PalmKit runs the models that came in its wheel and never opens a connection.
"""
