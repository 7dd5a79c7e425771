package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
)

// ErrChanged is returned when the configuration file has another content. The process
// should end and be restarted.
var ErrChanged = errors.New("the configuration file has changed")

// pollPeriod is how often the file is read. A kubelet takes about a minute to update a ConfigMap.
const pollPeriod = 10 * time.Second

// Watch returns ErrChanged, wrapped, when the configuration file has a valid content that
// differs from c; nil if ctx ends before that. Invalid content and changes without a
// difference are logged. Changes since c was read are noticed, too. Without a file, Watch
// waits for ctx.
func (c *Config) Watch(ctx context.Context, log *slog.Logger) error {
	if c.File == "" {
		<-ctx.Done()
		return nil
	}
	done := content{text: c.text} // the last content that was handled
	for last := done; ; {
		now := readContent(c.File)
		if now != done && now == last { // unchanged since the last read, so it is complete
			done = now
			if c.replacedBy(now, log) {
				return fmt.Errorf("%s: %w", c.File, ErrChanged)
			}
		}
		last = now
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollPeriod):
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
