package manifests

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// debounce is how long folders must not change before they are read: editors, and
	// copies of several files, make many changes that belong together.
	debounce = 50 * time.Millisecond
	// maxDebounce is the longest wait if they change all the time.
	maxDebounce = time.Second
)

// watcher waits for changes in folders. It watches folders, not files, because the watch
// of a file ends when the file is replaced.
type watcher struct {
	notify *fsnotify.Watcher
	log    *slog.Logger
	// folders are those being watched, by path, as they were then: another folder may have
	// the path now.
	folders map[string]os.FileInfo
}

func newWatcher(log *slog.Logger) (*watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &watcher{notify: notify, log: log, folders: map[string]os.FileInfo{}}, nil
}

func (w *watcher) close() { _ = w.notify.Close() }

// add watches a folder, unless it already does.
func (w *watcher) add(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if known := w.folders[dir]; known != nil && os.SameFile(known, info) {
		return nil
	}
	w.forget(dir)
	if err := w.notify.Add(dir); err != nil {
		return err
	}
	w.folders[dir] = info
	return nil
}

// watchOnly watches these folders and no others. A folder that cannot be watched is only
// the target of links, and left to the regular rescan.
func (w *watcher) watchOnly(dirs []string) {
	for _, dir := range dirs {
		_ = w.add(dir)
	}
	for dir := range w.folders {
		if !slices.Contains(dirs, dir) {
			w.forget(dir)
		}
	}
}

// forget ends a watch. That of a removed folder has ended already.
func (w *watcher) forget(dir string) {
	_ = w.notify.Remove(dir)
	delete(w.folders, dir)
}

// wait waits for changes to begin and end again, or until the limit is over. It reports
// false if ctx ends.
func (w *watcher) wait(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	var end <-chan time.Time // set by the first change
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-end:
			return true
		case event := <-w.notify.Events:
			if event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
				delete(w.folders, event.Name) // if it was one
			}
		case err := <-w.notify.Errors:
			// What the lost notifications are about can still be read.
			w.log.Debug("notifications of manifest changes lost", "err", err)
		}
		timer.Reset(debounce)
		if end == nil {
			end = time.After(maxDebounce)
		}
	}
}
