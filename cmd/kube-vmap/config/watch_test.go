package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// watching is a running Watch.
type watching struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
	logs   chan string
}

// deadline limits every wait.
const deadline = 20 * time.Second

// watch starts a Watch, with or without notifications.
func watch(t *testing.T, c *Config) *watching {
	w := newWatcher(c.File, slog.New(slog.DiscardHandler))
	w.rescan = time.Hour
	return watchWith(t, c, w)
}

func watchWith(t *testing.T, c *Config, w *watcher) *watching {
	ctx, cancel := context.WithCancel(t.Context())
	run := &watching{t: t, cancel: cancel, done: make(chan error, 1), logs: make(chan string, 1000)}
	go func() {
		defer w.close()
		run.done <- c.watch(ctx, w, slog.New(slog.NewTextHandler(run, nil)))
	}()
	t.Cleanup(cancel)
	return run
}

// Write receives a line of the log.
func (w *watching) Write(line []byte) (int, error) {
	w.logs <- string(line)
	return len(line), nil
}

// nextLine waits for the next line of the log, which must have this text.
func (w *watching) nextLine(text string) {
	w.t.Helper()
	select {
	case line := <-w.logs:
		if !strings.Contains(line, text) {
			w.t.Fatalf("got %q, want %q", line, text)
		}
	case err := <-w.done:
		w.t.Fatalf("ended with %v instead of saying %q", err, text)
	case <-time.After(deadline):
		w.t.Fatalf("nothing happens; want %q", text)
	}
}

// awaitLine waits for a line of the log with this text, after any others: a file that is not
// replaced atomically may be read half written.
func (w *watching) awaitLine(text string) {
	w.t.Helper()
	for end := time.After(deadline); ; {
		select {
		case line := <-w.logs:
			if strings.Contains(line, text) {
				return
			}
		case err := <-w.done:
			w.t.Fatalf("ended with %v instead of saying %q", err, text)
		case <-end:
			w.t.Fatalf("nothing happens; want %q", text)
		}
	}
}

// ends waits for ErrChanged.
func (w *watching) ends(want error) {
	w.t.Helper()
	select {
	case err := <-w.done:
		if !errors.Is(err, want) {
			w.t.Fatalf("got %v, want %v", err, want)
		}
	case <-time.After(deadline):
		w.t.Fatalf("nothing happens; want the end with %v", want)
	}
}

// stops ends a Watch that is still running.
func (w *watching) stops() {
	w.t.Helper()
	w.cancel()
	w.ends(nil)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// move replaces a file atomically.
func move(t *testing.T, path, text string) {
	t.Helper()
	put(t, path+"~", text)
	must(t, os.Rename(path+"~", path))
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// replace replaces a symbolic link atomically.
func replace(t *testing.T, target, link string) {
	t.Helper()
	must(t, os.Symlink(target, link+"_tmp"))
	must(t, os.Rename(link+"_tmp", link))
}

// configMap is a volume of a ConfigMap as kubelet lays it out and updates it
// (k8s.io/kubernetes/pkg/volume/util/atomic_writer.go).
type configMap struct {
	dir      string
	versions int
}

func (m *configMap) update(t *testing.T, text string) {
	t.Helper()
	before, _ := os.Readlink(filepath.Join(m.dir, "..data"))
	m.versions++
	version := fmt.Sprintf("..2025_%d", m.versions)
	must(t, os.Mkdir(filepath.Join(m.dir, version), 0o700))
	put(t, filepath.Join(m.dir, version, "config.conf"), text)
	replace(t, version, filepath.Join(m.dir, "..data"))
	if before == "" {
		must(t, os.Symlink("..data/config.conf", filepath.Join(m.dir, "config.conf")))
		return
	}
	must(t, os.RemoveAll(filepath.Join(m.dir, before)))
}

const (
	before  = header + "clusterCIDR: 10.244.0.0/16\n"
	same    = "# the same\n" + before
	after   = header + "clusterCIDR: 10.244.0.0/16,fd00:10:244::/56\n"
	invalid = header + "clusterCIDR: none\n"
)

// TestWatchNoticesEveryKindOfChange changes a file twice, the first time without a
// difference.
func TestWatchNoticesEveryKindOfChange(t *testing.T) {
	for _, test := range []struct {
		name  string
		setUp func(t *testing.T, dir string) (path string, change func(text string))
	}{
		{"it is written to", func(t *testing.T, dir string) (string, func(string)) {
			path := filepath.Join(dir, "config.conf")
			put(t, path, before)
			return path, func(text string) { put(t, path, text) }
		}},
		{"it is replaced by a rename", func(t *testing.T, dir string) (string, func(string)) {
			path := filepath.Join(dir, "config.conf")
			put(t, path, before)
			return path, func(text string) { move(t, path, text) }
		}},
		{"it is removed and created again", func(t *testing.T, dir string) (string, func(string)) {
			path := filepath.Join(dir, "config.conf")
			put(t, path, before)
			return path, func(text string) {
				must(t, os.Remove(path))
				put(t, path, text)
			}
		}},
		{"its ConfigMap is updated", func(t *testing.T, dir string) (string, func(string)) {
			m := &configMap{dir: dir}
			m.update(t, before)
			return filepath.Join(dir, "config.conf"), func(text string) { m.update(t, text) }
		}},
		{"it is named by the link that a ConfigMap replaces", func(t *testing.T, dir string) (string, func(string)) {
			m := &configMap{dir: dir}
			m.update(t, before)
			return filepath.Join(dir, "..data", "config.conf"), func(text string) { m.update(t, text) }
		}},
		{"it is written to behind a link", func(t *testing.T, dir string) (string, func(string)) {
			path, file := filepath.Join(dir, "config.conf"), filepath.Join(t.TempDir(), "file")
			put(t, file, before)
			must(t, os.Symlink(file, path))
			return path, func(text string) { put(t, file, text) }
		}},
		{"a link to it leads elsewhere", func(t *testing.T, dir string) (string, func(string)) {
			path := filepath.Join(dir, "config.conf")
			change := func(text string) { replace(t, write(t, text), path) }
			change(before)
			return path, change
		}},
		{"its folder is replaced", func(t *testing.T, dir string) (string, func(string)) {
			folder := filepath.Join(dir, "folder")
			path := filepath.Join(folder, "config.conf")
			must(t, os.Mkdir(folder, 0o700))
			put(t, path, before)
			return path, func(text string) {
				must(t, os.Mkdir(folder+"_new", 0o700))
				put(t, filepath.Join(folder+"_new", "config.conf"), text)
				must(t, os.Rename(folder, folder+"_old"))
				must(t, os.Rename(folder+"_new", folder))
				must(t, os.RemoveAll(folder+"_old"))
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path, change := test.setUp(t, t.TempDir())
			w := watch(t, load(t, "--config", path))
			change(before)
			change(same)
			w.awaitLine("written without changes")
			change(same)
			change(after)
			w.ends(ErrChanged)
		})
	}
}

func TestWatchNoticesEarlierChanges(t *testing.T) {
	path := write(t, before)
	c := load(t, "--config", path)
	put(t, path, after)
	if err := c.Watch(t.Context(), slog.New(slog.DiscardHandler)); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func TestWatchIgnoresInvalidFiles(t *testing.T) {
	t.Parallel()
	path := write(t, before)
	w := watch(t, load(t, "--config", path))
	for _, text := range []string{invalid, "", "garbage"} {
		move(t, path, text)
		w.nextLine("is invalid")
		move(t, path, text) // the same error is not logged again
	}
	must(t, os.Remove(path))
	w.nextLine("no such file")
	move(t, path, before)
	w.nextLine("written without changes")
	move(t, path, after)
	w.ends(ErrChanged)
}

func TestWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := write(t, before)
	w := watch(t, load(t, "--config", path))
	move(t, path, same)
	w.nextLine("written without changes")
	w.stops()

	none := watch(t, load(t, "--cluster-cidr=10.0.0.0/8"))
	none.stops()
}

func TestWatchWithoutFileWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- load(t).Watch(ctx, slog.New(slog.DiscardHandler)) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestOverriddenFieldIsNoChange(t *testing.T) {
	t.Parallel()
	path := write(t, before)
	w := watch(t, load(t, "--config", path, "--hostname-override=worker-1", "-v=2"))
	move(t, path, before+"hostnameOverride: worker-2\nlogging: {verbosity: 5}\n")
	w.nextLine("written without changes")
	move(t, path, before+"logging: {format: json}\n")
	w.ends(ErrChanged)
}

func TestWatchFindsChangesWithoutNotifications(t *testing.T) {
	t.Parallel()
	path := write(t, before)
	w := watchWith(t, load(t, "--config", path),
		&watcher{path: path, rescan: 10 * time.Millisecond, log: slog.New(slog.DiscardHandler)})
	move(t, path, same)
	w.nextLine("written without changes")
	move(t, path, after)
	w.ends(ErrChanged)
}

func TestOtherFilesInTheFolderAreIgnored(t *testing.T) {
	path := write(t, before)
	w := newWatcher(path, slog.New(slog.DiscardHandler))
	defer w.close()
	w.follow()
	for name, want := range map[string]bool{
		path:                             true,
		filepath.Dir(path):               true,
		path + "~":                       false,
		filepath.Join(path, "x"):         false,
		filepath.Dir(filepath.Dir(path)): false,
	} {
		if got := w.concerns(name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestFormerFoldersOfTheFileAreNotWatched(t *testing.T) {
	link := filepath.Join(t.TempDir(), "config.conf")
	w := newWatcher(link, slog.New(slog.DiscardHandler))
	defer w.close()
	for range 3 {
		file := write(t, before)
		replace(t, file, link)
		w.follow()
		want := []string{filepath.Dir(file), filepath.Dir(link)}
		slices.Sort(want)
		got := w.notify.WatchList()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestSymlinkLoopsEnd(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	must(t, os.Symlink(a, b))
	must(t, os.Symlink(b, a))
	if got := linksTo(a); len(got) < 2 || len(got) > maxLinks+1 {
		t.Errorf("got %d names", len(got))
	}
}
