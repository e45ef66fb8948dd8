"""The parts of verifier_server.py."""
