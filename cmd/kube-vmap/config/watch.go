package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/equality"
)

// ErrChanged says that the configuration file now says something else. The
// process should end, so that whoever started it starts it anew with that.
var ErrChanged = errors.New("the configuration file has changed")

// Watch returns ErrChanged, wrapped, when the configuration file has come to say
// something else than c does, and it is valid; nil if ctx ends before that. What
// is not valid is logged, and c stays in force; so is a change that makes no
// difference. Changes since c was read are noticed too. Without a file, it waits
// for ctx.
//
// It notices files that are written to, replaced by a rename, or reached through
// symbolic links of which one is replaced, as in a volume of a ConfigMap.
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
	done := look{text: c.text} // what has been dealt with
	for last := done; ; {
		w.follow() // before reading, so that no change falls in between
		now := lookAt(c.File)
		if now != done && now == last { // nobody is still writing
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

// look is what a look at a file has found.
type look struct {
	text string
	err  string // why there is no text
}

func lookAt(file string) look {
	text, err := read(file)
	if err != nil {
		return look{err: err.Error()}
	}
	return look{text: string(text)}
}

// replacedBy tells whether the file says something else than c, and that is
// valid.
func (c *Config) replacedBy(now look, log *slog.Logger) bool {
	const still = "configuration file cannot be used; what was read before stays in force"
	if now.err != "" {
		log.Warn(still, "error", now.err)
		return false
	}
	other, err := c.flags.parse([]byte(now.text))
	if err != nil {
		log.Warn(still, "error", err)
		return false
	}
	if !equality.Semantic.DeepEqual(&other.Proxy, &c.Proxy) {
		return true
	}
	log.Info("configuration file was written, but says the same", "file", c.File)
	return false
}
