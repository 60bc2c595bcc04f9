"""The server of a team's models: static repository, reports, halt rule and the page to run it.

`palmkit serve` starts it from one command; SERVER.md says how it grows. Needs the extra [server].
"""
