package lab

import (
	"errors"
	"slices"
	stdsync "sync"
)

// ErrClosed is returned if the lab, or the part of it in question, is closed.
var ErrClosed = errors.New("lab is closed")

// cleanup is a stack of functions that undo something. Its zero value is ready.
type cleanup struct {
	mu     stdsync.Mutex
	undo   []func() error
	closed bool
}

// add pushes a function and returns one that calls it immediately; both call it only once.
// After close, add calls it itself and returns ErrClosed.
func (c *cleanup) add(run func() error) (now func() error, err error) {
	now = stdsync.OnceValue(run)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.Join(ErrClosed, now())
	}
	c.undo = append(c.undo, now)
	return now, nil
}

// close calls all functions, the last one first. A second call does nothing.
func (c *cleanup) close() error {
	c.mu.Lock()
	undo := c.undo
	c.undo, c.closed = nil, true
	c.mu.Unlock()
	var errs []error
	for _, run := range slices.Backward(undo) {
		errs = append(errs, run())
	}
	return errors.Join(errs...)
}
