//nolint:revive // exported methods are those of testing.TB
package clustertest

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
	name       string
	cleanups   []func()
	err        error
}

// AsTest runs fn, which may end by Fatal, for a command of this name, and then the clean-ups.
func AsTest(ctx context.Context, name string, fn func(testing.TB) error) error {
	p := &program{ctx: ctx, name: name}
	p.run(func() { p.fail(fn(p)) })
	for _, clean := range slices.Backward(p.cleanups) {
		p.run(clean)
	}
	return p.err
}

// run runs fn in a goroutine, which Fatal ends.
func (p *program) run(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}

func (p *program) fail(err error) { p.err = errors.Join(p.err, err) }

func (p *program) Cleanup(fn func())        { p.cleanups = append(p.cleanups, fn) }
func (p *program) Context() context.Context { return p.ctx }
func (p *program) Failed() bool             { return p.err != nil }
func (p *program) Helper()                  {}
func (p *program) Name() string             { return p.name }

func (p *program) Log(args ...any)                 { fmt.Fprintln(os.Stderr, args...) }
func (p *program) Logf(format string, args ...any) { p.Log(fmt.Sprintf(format, args...)) }

func (p *program) Error(args ...any) { p.fail(errors.New(fmt.Sprint(args...))) }

func (p *program) Fatal(args ...any) {
	p.Error(args...)
	runtime.Goexit()
}

func (p *program) Fatalf(format string, args ...any) { p.Fatal(fmt.Sprintf(format, args...)) }
func (p *program) Skip(args ...any)                  { p.Fatal(args...) }
func (p *program) Skipf(format string, args ...any)  { p.Fatalf(format, args...) }

// TempDir returns a folder that is removed at the end.
func (p *program) TempDir() string {
	dir, err := os.MkdirTemp("", "kube-vmap-"+p.name+"-")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
