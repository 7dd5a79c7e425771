package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/equality"
)

// ErrChanged is returned when the configuration file has another content. The process
// should end and be restarted.
var ErrChanged = errors.New("the configuration file has changed")

// Watch returns ErrChanged, wrapped, when the configuration file has a valid content that
// differs from c; nil if ctx ends before that. Invalid content and changes without a
// difference are logged. Changes since c was read are noticed, too. Without a file, Watch
// waits for ctx.
//
// It notices writes, renames, and changes of symbolic links on the path, as in a volume of
// a ConfigMap.
func (c *Config) Watch(ctx context.Context, log *slog.Logger) error {
	if c.File == "" {
		<-ctx.Done()
		return nil
	}
	w := newWatcher(c.File, log)
	defer w.close()
	return c.watch(ctx, w, log)
}

func (c *Config) watch(ctx context.Context, w *watcher, log *slog.Logger) error {
	done := content{text: c.text} // the last content that was handled
	for last := done; ; {
		w.follow() // before reading, so that no change is missed
		now := readContent(c.File)
		if now != done && now == last { // unchanged since the last read, so it is complete
			done = now
			if c.replacedBy(now, log) {
				return fmt.Errorf("%s: %w", c.File, ErrChanged)
			}
		}
		last = now
		pause := w.rescan
		if now != done {
			pause = debounce
		}
		if !w.wait(ctx, pause) {
			return nil
		}
	}
}

// content is the content of the file, or the error of reading it.
type content struct{ text, err string }

func readContent(file string) content {
	text, err := read(file)
	if err != nil {
		return content{err: err.Error()}
	}
	return content{text: string(text)}
}

// replacedBy reports whether a content is valid and differs from c.
func (c *Config) replacedBy(now content, log *slog.Logger) bool {
	const still = "configuration file is invalid, keeping the previous configuration"
	if now.err != "" {
		log.Warn(still, "err", now.err)
		return false
	}
	other, err := c.flags.parse([]byte(now.text))
	if err != nil {
		log.Warn(still, "err", err)
		return false
	}
	if !equality.Semantic.DeepEqual(&other.Proxy, &c.Proxy) {
		return true
	}
	log.Info("configuration file was written without changes", "file", c.File)
	return false
}
