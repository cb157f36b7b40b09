"""How results look: tables for people, documents for programs."""
