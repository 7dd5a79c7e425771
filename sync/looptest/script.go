package looptest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/tools/txtar"

	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// Options are the options of Run.
type Options struct {
	// Scripts is a pattern of files.
	Scripts string
	// Open returns an empty kernel for a script.
	Open func(testing.TB) sync.Kernel
	// Update rewrites the files in scripts with actual results.
	Update bool
}

// Run runs each script as a subtest.
func Run(t *testing.T, o Options) {
	t.Helper()
	files, err := filepath.Glob(o.Scripts)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", o.Scripts, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			kernel := o.Open(t)
			s := &script{archive: archive, update: o.Update}
			synctest.Test(t, func(t *testing.T) {
				s.T, s.rig = t, newRig(kernel, kerneltest.FaultRates{}, 0)
				s.run(file)
			})
			if s.updated {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// script is a running script.
type script struct {
	*testing.T
	*rig
	archive         *txtar.Archive
	update, updated bool
	at              string // the current line
}

// run runs the commands and stops at the first that fails.
func (s *script) run(file string) {
	defer func() {
		s.meter.release()
		_ = s.stop() // if it runs
		if s.Failed() {
			s.Logf("the end of the log:\n%s", s.logTail(50))
		}
	}()
	for i, line := range strings.Split(string(s.archive.Comment), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		s.at = fmt.Sprintf("%s:%d: %s", file, i+1, line)
		c, known := commands[words[0]]
		if !known || len(words) <= c.args {
			s.fail("unknown command, or arguments are missing")
		}
		c.run(s, words[1:])
	}
	s.require(s.check())
}

// fail ends the test at the current line.
func (s *script) fail(format string, args ...any) {
	s.Helper()
	s.Fatalf("%s: %s", s.at, fmt.Sprintf(format, args...))
}

// require ends the test at the current line if there is an error.
func (s *script) require(err error) {
	s.Helper()
	if err != nil {
		s.fail("%v", err)
	}
}

// snapshot returns a snapshot of the loop.
func (s *script) snapshot() sync.Snapshot {
	v, err := s.loop.Snapshot(context.Background())
	s.require(err)
	return v
}

// compare compares a text with a file of the archive.
func (s *script) compare(name, got string) {
	i := slices.IndexFunc(s.archive.Files, func(f txtar.File) bool { return f.Name == name })
	switch {
	case i < 0:
		s.fail("no such file")
	case string(s.archive.Files[i].Data) == got:
	case s.update:
		s.archive.Files[i].Data, s.updated = []byte(got), true
	default:
		s.fail("want\n%sgot\n%s", s.archive.Files[i].Data, got)
	}
}
