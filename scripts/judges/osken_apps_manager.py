"""Starts os-ken's manager in the environment of requirements-osken-apps.txt; arguments are osken-manager's own.

That os-ken's web server takes a name from eventlet which eventlet has since given up (it marks answers of web sockets,
which no judge uses). Nothing else is changed.
"""
from os_ken.lib import hub

hub.patch(thread=False)     # before anything else is imported, as the manager does

import eventlet.wsgi  # noqa: E402

if not hasattr(eventlet.wsgi, "ALREADY_HANDLED"):
    eventlet.wsgi.ALREADY_HANDLED = object()

from os_ken.cmd import manager  # noqa: E402

if __name__ == "__main__":
    manager.main()
