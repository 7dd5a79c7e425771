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
	// debounce is how long folders must be quiet before they are read: editors,
	// and whoever copies several files, make many changes that belong together.
	debounce = 50 * time.Millisecond
	// patience is how long they may go on without being quiet.
	patience = time.Second
)

// watcher waits until something in a few folders may have changed. It watches
// folders, not files, because a file that is replaced takes its watch along.
type watcher struct {
	notify *fsnotify.Watcher
	log    *slog.Logger
	// folders are those being watched, as they were then: another one may have
	// taken the name of one that was removed.
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

// add watches a folder, unless it is watched already.
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

// watchOnly watches these folders and no others. One that cannot be watched is
// left to the regular rescan: it is not the folder the manifests are in, only
// where one of them is linked to.
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

// forget ends a watch; that of a removed folder has ended already.
func (w *watcher) forget(dir string) {
	_ = w.notify.Remove(dir)
	delete(w.folders, dir)
}

// wait returns true after a change, when all is quiet again, or when the limit
// is over; false if ctx ends.
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
			// What the lost events would have said can be read.
			w.log.Debug("changes of manifests missed", "error", err)
		}
		timer.Reset(debounce)
		if end == nil {
			end = time.After(patience)
		}
	}
}
