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
	// debounce is how long the file must not change before it is read, since it may be
	// written in pieces.
	debounce = 50 * time.Millisecond
	// maxDebounce limits the wait for a file that keeps changing.
	maxDebounce = time.Second
	// rescan is how often the file is read without a notification: there is none if a
	// file system is mounted over its folder.
	rescan = time.Minute
	// maxLinks is how many symbolic links the kernel follows (path_resolution(7)).
	maxLinks = 40
)

// watcher waits until a file may have changed. It watches the folders of the file and of
// the links to it, since the watch of a file ends when the file is replaced.
type watcher struct {
	path   string
	notify *fsnotify.Watcher // nil without notifications
	events chan fsnotify.Event
	errors chan error
	rescan time.Duration
	log    *slog.Logger
	names  []string // of the file and the links to it
}

// newWatcher works without notifications if the kernel is out of them
// (fs.inotify.max_user_instances): a node needs its Services.
func newWatcher(path string, log *slog.Logger) *watcher {
	w := &watcher{path: path, rescan: rescan, log: log}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("no notifications of changes, polling the configuration file", "file", path, "period", rescan, "err", err)
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

// follow updates the watched folders. Folders that cannot be watched are left to the
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

// wait returns true after a change and the debounce time, or after the limit; false if ctx
// ends.
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
		case err := <-w.errors: // events were lost; reading the file replaces them
			w.log.Debug("notifications of the configuration file lost", "err", err)
		}
		timer.Reset(debounce)
		if end == nil {
			end = time.After(maxDebounce)
		}
	}
}

// concerns reports whether a name is the file, a link to it, or the folder of either.
func (w *watcher) concerns(name string) bool {
	return slices.ContainsFunc(w.names, func(n string) bool { return n == name || filepath.Dir(n) == name })
}

// linksTo returns the symbolic links on the path of a file, and last the file itself, each
// with a name without links. It ends at the first name that does not exist.
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
