"""The server of a team's models: static repository, reports, halt rule and a page to operate it.

`palmkit serve` starts it from one command; SERVER.md describes how it scales. Needs the extra
[server].
"""
