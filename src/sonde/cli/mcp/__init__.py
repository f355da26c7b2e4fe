"""``sonde mcp``: tools for language models, by the Model Context Protocol. The server answers; each request is carried
out by a child of its own, within limits and by the policy, so that no request can hang or fill the server.
"""
