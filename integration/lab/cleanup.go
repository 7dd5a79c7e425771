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
	undo   []*task
	closed bool
}

type task struct{ run func() error }

// add pushes a function and returns one that calls it immediately, and only once.
// After close, add calls it itself and returns ErrClosed.
func (c *cleanup) add(run func() error) (now func() error, err error) {
	t, err := c.addTask(run)
	if err != nil {
		return nil, err
	}
	return func() error {
		if !c.claim(t) {
			return nil
		}
		return run()
	}, nil
}

// addTask is add for callers that undo it in another way, after a claim.
func (c *cleanup) addTask(run func() error) (*task, error) {
	c.mu.Lock()
	if !c.closed {
		defer c.mu.Unlock()
		t := &task{run}
		c.undo = append(c.undo, t)
		return t, nil
	}
	c.mu.Unlock()
	return nil, errors.Join(ErrClosed, run())
}

// claim removes a task and reports whether it had not been done yet.
func (c *cleanup) claim(t *task) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.undo, t)
	if i < 0 {
		return false
	}
	c.undo = slices.Delete(c.undo, i, i+1)
	return true
}

// close calls all functions, the last one first. A second call does nothing.
func (c *cleanup) close() error {
	c.mu.Lock()
	undo := c.undo
	c.undo, c.closed = nil, true
	c.mu.Unlock()
	var errs []error
	for _, t := range slices.Backward(undo) {
		errs = append(errs, t.run())
	}
	return errors.Join(errs...)
}
