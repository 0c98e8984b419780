"""`gib-nb app`: the explorers in a browser."""

from gib_nb.cli.common import PLAIN

EXAMPLES = """examples:
  gib-nb app                                  on this computer only
  gib-nb app --model runs/activity            with your model in the tab for molecules
  gib-nb app --ip 0.0.0.0 --port 8080         for a class on the same network
"""


def add_parser(commands) -> list:
    "Add the command, and return its parser in a list."
    parser = commands.add_parser(
        "app",
        help="show the explorers in a browser",
        usage="gib-nb app [options]",
        epilog=EXAMPLES,
        description="Serve a page with all explorers, one in each tab. They have sliders and need no code.",
        **PLAIN,
    )
    parser.add_argument("--port", type=int, default=8866, metavar="N", help="port of the page (default: 8866)")
    parser.add_argument(
        "--ip",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on; with 0.0.0.0 everyone who can reach this computer can open the "
        "page (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--model",
        metavar="RUN",
        help="result folder of gib-nb train on molecules, whose model is shown in the tab for molecules",
    )
    parser.add_argument("--no-browser", dest="show", action="store_false", help="do not open a browser")
    parser.set_defaults(run=app_command)
    return [parser]


def app_command(args) -> int:
    "Serve the explorers until interrupted; returns the exit code."
    try:
        from gib_nb.explorers.app import serve

        if args.model is not None:
            from gib_nb.explorers.molecule import own_model

            own_model(args.model)  # so that an error is shown in the terminal, not on the page
        return serve(args.port, args.ip, args.show, args.model)
    except ImportError as error:
        raise OSError(str(error)) from error
