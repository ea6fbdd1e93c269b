"""What a real account is asked, what it costs, and what is made of its answers: all of it pure."""
