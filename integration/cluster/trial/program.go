package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
)

// program is a [testing.TB] for code of tests that runs outside of one.
type program struct {
	testing.TB                 // nil: it has a method that cannot be implemented
	ctx        context.Context //nolint:containedctx // as that of a test
	cleanups   []func()
	err        error
}

// asTest runs fn, which may end by Fatal, and then the clean-ups.
func asTest(ctx context.Context, fn func(*program) error) error {
	p := &program{ctx: ctx}
	done := make(chan struct{})
	go func() { // Fatal ends the goroutine
		defer close(done)
		if err := fn(p); err != nil {
			p.err = errors.Join(p.err, err)
		}
	}()
	<-done
	for _, clean := range slices.Backward(p.cleanups) {
		p.run(clean)
	}
	return p.err
}

func (p *program) run(clean func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		clean()
	}()
	<-done
}

func (p *program) Cleanup(fn func())        { p.cleanups = append(p.cleanups, fn) }
func (p *program) Context() context.Context { return p.ctx }
func (p *program) Failed() bool             { return p.err != nil }
func (p *program) Helper()                  {}
func (p *program) Name() string             { return "trial" }

func (p *program) Log(args ...any)                 { fmt.Fprintln(os.Stderr, args...) }
func (p *program) Logf(format string, args ...any) { p.Log(fmt.Sprintf(format, args...)) }

func (p *program) Fatal(args ...any) {
	p.err = errors.Join(p.err, errors.New(fmt.Sprint(args...)))
	runtime.Goexit()
}

func (p *program) Fatalf(format string, args ...any) { p.Fatal(fmt.Sprintf(format, args...)) }
func (p *program) Skip(args ...any)                  { p.Fatal(args...) }
func (p *program) Skipf(format string, args ...any)  { p.Fatalf(format, args...) }

// TempDir returns a folder that is removed at the end.
func (p *program) TempDir() string {
	dir, err := os.MkdirTemp("", "kube-vmap-trial-")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
