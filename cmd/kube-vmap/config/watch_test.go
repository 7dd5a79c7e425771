package config

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

const (
	before  = header + "clusterCIDR: 10.244.0.0/16\n"
	same    = "# the same\n" + before
	after   = header + "clusterCIDR: 10.244.0.0/16,fd00:10:244::/56\n"
	invalid = header + "clusterCIDR: none\n"
)

// TestWatchEndsWithAValidChange writes contents, one in each three periods. The last one is to end
// the watch, and each of the others to be logged.
func TestWatchEndsWithAValidChange(t *testing.T) {
	for name, tc := range map[string]struct {
		flags    []string
		contents []string
		logged   string // of each but the last
	}{
		"a change":     {contents: []string{after}},
		"no change":    {contents: []string{same, after}, logged: "written without changes"},
		"invalid ones": {contents: []string{invalid, "garbage", "", after}, logged: "keeping the previous configuration"},
		"fields of flags": {
			flags:    []string{"--hostname-override=worker-1", "-v=2"},
			contents: []string{before + "hostnameOverride: worker-2\nlogging: {verbosity: 5}\n", before + "logging: {format: json}\n"},
			logged:   "written without changes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := write(t, before)
				c := load(t, append(tc.flags, "--config", path)...)
				var log bytes.Buffer
				done := make(chan error, 1)
				go func() { done <- c.Watch(t.Context(), slog.New(slog.NewTextHandler(&log, nil))) }()
				for i, text := range tc.contents {
					put(t, path, text)
					time.Sleep(3 * pollPeriod) //nolint:forbidigo // of the bubble
					synctest.Wait()
					if n := strings.Count(log.String(), tc.logged); tc.logged != "" && n != min(i+1, len(tc.contents)-1) {
						t.Errorf("after %d contents, %d lines:\n%s", i+1, n, &log)
					}
				}
				if err := <-done; !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), path) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// TestWatchWaitsUntilTheFileIsComplete writes in two pieces, of which the first is valid alone.
func TestWatchWaitsUntilTheFileIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := write(t, before)
		c := load(t, "--config", path)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Watch(ctx, slog.New(slog.DiscardHandler)) }()
		synctest.Wait()
		put(t, path, after)
		time.Sleep(pollPeriod + time.Second) //nolint:forbidigo // of the bubble
		put(t, path, same)
		time.Sleep(5 * pollPeriod) //nolint:forbidigo // of the bubble
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// TestWatchNoticesAnUpdateOfAConfigMap replaces the link of a volume, as a kubelet does.
func TestWatchNoticesAnUpdateOfAConfigMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		data := filepath.Join(dir, "..data")
		must(t, os.Symlink(filepath.Dir(write(t, before)), data))
		c := load(t, "--config", filepath.Join(data, "config.conf"))
		must(t, os.Symlink(filepath.Dir(write(t, after)), data+"_tmp"))
		must(t, os.Rename(data+"_tmp", data))
		if err := c.Watch(t.Context(), slog.New(slog.DiscardHandler)); !errors.Is(err, ErrChanged) {
			t.Errorf("got %v", err)
		}
	})
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
