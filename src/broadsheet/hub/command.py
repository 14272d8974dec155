"""
Push a saved model, processor, tokenizer or dataset to the Hub.

    broadsheet push outputs/funsd jane/funsd-skimformer
    broadsheet push outputs/funsd jane/funsd-skimformer --with-code     loads where Broadsheet is not installed
"""

import argparse
import sys
from collections.abc import Sequence

from broadsheet.hub.push import push
from broadsheet.tokenization.input_checks import InputError


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command line; None for the process' own arguments.

    Raises:
        InputError: for a folder that cannot be pushed, or where the Hub refuses.
    """
    parser = argparse.ArgumentParser(
        prog="broadsheet push", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="what save_pretrained, save_to_disk or a training run wrote")
    parser.add_argument("repo", help="USER/NAME; made if it is not there")
    parser.add_argument("--with-code", action="store_true", help="send the code, for trust_remote_code=True")
    parser.add_argument("--private", action="store_true", default=None, help="make a new repository private")
    parser.add_argument("--revision", help="the branch; main if omitted")
    parser.add_argument("--message", help="of the commit")
    parser.add_argument("--token", help="a token that may write; the one logged in with if omitted")
    arguments = parser.parse_args(sys.argv[1:] if argv is None else list(argv))
    pushed = push(**vars(arguments))
    if pushed.left_out:
        print(f"left out: {', '.join(pushed.left_out)}", file=sys.stderr)
    print(f"{pushed.kind}: {len(pushed.files)} {'splits' if pushed.kind == 'dataset' else 'files'} at {pushed.url}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"Error: {error}")
