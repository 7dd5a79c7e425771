package config

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// debounce is how long the file must be left alone before it is read, since
	// it may be written in pieces.
	debounce = 50 * time.Millisecond
	// patience is how long it may go on without being left alone.
	patience = time.Second
	// rescan is how often the file is read without any notice of a change: there
	// may be none, if a file system is mounted over its folder.
	rescan = time.Minute
	// maxLinks is how many symbolic links the kernel follows (path_resolution(7)).
	maxLinks = 40
)

// watcher waits until a file may have changed. It watches the folders that the
// file and the links to it are in, not the file, because a file that is replaced
// takes its watch along.
type watcher struct {
	path   string
	notify *fsnotify.Watcher // nil if there can be none
	events chan fsnotify.Event
	errors chan error
	rescan time.Duration
	log    *slog.Logger
	names  []string // where the file and the links to it are
}

// newWatcher makes do without notices if the kernel has none left to give
// (fs.inotify.max_user_instances): that is no reason for a node to have no
// Services.
func newWatcher(path string, log *slog.Logger) *watcher {
	w := &watcher{path: path, rescan: rescan, log: log}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("configuration file is looked at only now and then", "file", path, "every", rescan, "error", err)
		return w
	}
	w.notify, w.events, w.errors = notify, notify.Events, notify.Errors
	return w
}

func (w *watcher) close() {
	if w.notify != nil {
		_ = w.notify.Close()
	}
}

// follow watches where the file is now. What cannot be watched is left to the
// rescan.
func (w *watcher) follow() {
	w.names = linksTo(w.path)
	if w.notify == nil {
		return
	}
	var folders []string
	for _, name := range w.names {
		folders = append(folders, filepath.Dir(name))
		_ = w.notify.Add(filepath.Dir(name))
	}
	for _, folder := range w.notify.WatchList() {
		if !slices.Contains(folders, folder) {
			_ = w.notify.Remove(folder)
		}
	}
}

// wait returns true when the file may have changed and is left alone again, or
// the limit is over; false if ctx ends.
func (w *watcher) wait(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var end <-chan time.Time // set by the first change
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-end:
			return true
		case event := <-w.events:
			if !w.concerns(event.Name) {
				continue
			}
		case err := <-w.errors: // events were lost; what they would have said can be read
			w.log.Debug("changes of the configuration file missed", "error", err)
		}
		timer.Reset(debounce)
		if end == nil {
			end = time.After(patience)
		}
	}
}

// concerns tells whether something under this name is the file, on the way to
// it, or the folder of either.
func (w *watcher) concerns(name string) bool {
	return slices.ContainsFunc(w.names, func(n string) bool { return n == name || filepath.Dir(n) == name })
}

// linksTo returns the symbolic links on the way to a file, and last the file
// itself, each with a name that goes through no other link. Where there is
// nothing, it ends with the name of what is missing.
func linksTo(path string) []string {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	var names []string
	at, rest := "/", strings.Split(path, "/")
	for len(rest) > 0 && len(names) < maxLinks {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return append(names, next)
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at = next
			continue
		}
		names = append(names, next)
		target, err := os.Readlink(next)
		if err != nil {
			return names
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return append(names, at)
}
