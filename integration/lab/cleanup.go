package lab

import (
	"errors"
	"slices"
	stdsync "sync"
)

// ErrClosed says that the lab, or the part of it in question, is closed.
var ErrClosed = errors.New("lab is closed")

// cleanup is what has to be undone, last thing first. Its zero value is ready.
type cleanup struct {
	mu     stdsync.Mutex
	undo   []*task
	closed bool
}

type task struct{ run func() error }

// add remembers what to undo and returns a function that undoes it at once,
// and once only. After close, add undoes it by itself and returns ErrClosed.
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

// addTask is add for those who want to undo it in another way than close does,
// after a claim.
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

// claim takes a task off, and says whether it was still there to be done.
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

// close undoes everything. A second call does nothing.
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
