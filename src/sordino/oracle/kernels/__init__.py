"""Compiled inner loops. They see plain arrays and know nothing of privacy beyond clipping."""
