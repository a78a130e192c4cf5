"""The injector's table of options with a value, against the parser of the installed vLLM."""

import re

from server_flags import cli_args
from vllm.utils.argparse_utils import FlexibleArgumentParser


def table(root, name="kValueOptions"):
    text = (root / "operator/webhook/inject/value_options.h").read_text()
    begin = text.index(name)
    return re.findall(r'"(-[^"]+)"', text[begin : text.index("});", begin)])


# covers F-308
def test_the_table_has_the_options_with_a_value(root):
    valued, other = set(), set()
    for action in cli_args.make_arg_parser(FlexibleArgumentParser())._actions:
        names = {name.replace("_", "-") for name in action.option_strings}
        (valued if action.nargs in (None, "+") else other).update(names)
    names = table(root)
    assert names == sorted(names)
    assert not set(names) & other, "a word behind these may be a flag"
    assert not valued - set(names), "pods with these in front of a variable would be left alone"


# covers F-400
def test_the_table_has_the_options_with_a_list(root):
    lists = set()
    for action in cli_args.make_arg_parser(FlexibleArgumentParser())._actions:
        if action.nargs in ("+", "*"):
            lists.update(name.replace("_", "-") for name in action.option_strings)
    names = table(root, "kListOptions")
    assert names == sorted(names)
    assert set(names) == lists, "a further word behind these is a value, and no model"
