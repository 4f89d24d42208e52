"""curl's own language: its options, its config files, its command lines, its cookie jars. Pure text, no curl.

options    what each option is, and what it means to us: the table that all else rests on
values     what the value of an option may be; forms: what `form` spells; variables: `variable` and `expand-`
config     the text of a config file <-> options
command    the words of a command line <-> options; bash, cmd: the lines of a shell <-> words; glob: patterns of urls
jar        the text of a cookie jar
"""
