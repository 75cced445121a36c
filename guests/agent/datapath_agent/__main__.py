"""`python -m datapath_agent`."""

import sys

from datapath_agent.main import main

sys.exit(main())
