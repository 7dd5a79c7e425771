package main

// Exit codes beyond 0 and 1. Commands that compare say by 1 that there is a
// difference, as diff(1) and kubectl diff do, so that an error must be another.
const exitTrouble = 2

// exitError ends the process with a code of its own.
type exitError struct {
	code int
	err  error // nil if there is nothing to say
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }
