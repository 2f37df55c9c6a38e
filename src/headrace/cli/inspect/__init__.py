"""Commands that show and explain the state of a broker: top, doctor, explain, migrate."""
