"""Typed program to spec: IR, lowering, optimising passes, register allocation, emission."""
