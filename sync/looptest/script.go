package looptest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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
				s.rig = newRig(kernel, kerneltest.FaultRates{}, 0)
				s.run(t, file)
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
	*rig
	archive         *txtar.Archive
	update, updated bool
}

// run runs the commands and stops at the first that fails.
func (s *script) run(t *testing.T, file string) {
	defer func() {
		_ = s.meter.release()
		_ = s.stop() // if it runs
		if t.Failed() {
			t.Logf("the end of the log:\n%s", s.logTail(50))
		}
	}()
	for i, line := range strings.Split(string(s.archive.Comment), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := s.do(words[0], words[1:]); err != nil {
			t.Fatalf("%s:%d: %s: %v", file, i+1, strings.Join(words, " "), err)
		}
	}
	if err := s.check(); err != nil {
		t.Error(err)
	}
}

// do runs one command.
func (s *script) do(name string, args []string) error {
	c, known := commands[name]
	if !known {
		return fmt.Errorf("unknown command %q", name)
	}
	if len(args) < c.args {
		return fmt.Errorf("%d arguments are missing", c.args-len(args))
	}
	return c.run(s, args)
}

// compare compares a text with a file of the archive.
func (s *script) compare(name, got string) error {
	for i := range s.archive.Files {
		f := &s.archive.Files[i]
		if f.Name != name {
			continue
		}
		if bytes.Equal(f.Data, []byte(got)) {
			return nil
		}
		if s.update {
			f.Data, s.updated = []byte(got), true
			return nil
		}
		return fmt.Errorf("want\n%sgot\n%s", f.Data, got)
	}
	return fmt.Errorf("no file %q", name)
}
