"""The workloads, one module a tool or mechanism; datapath_agent.registry names them."""
