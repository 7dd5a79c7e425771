package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"kube-vmap/integration/lab"
)

// Config says what runs where.
type Config struct {
	// Program is the path of the built program.
	Program string
	// Host is the node.
	Host *lab.Host
	// Args are all flags, those for kubeconfig and node name among them.
	Args []string
	// Env is added to this process's environment.
	Env []string
	// Rights are those of the process; nil means this process's.
	Rights *syscall.SysProcAttr
	// Ready is the URL which tells whether the proxy is ready, as seen from the node;
	// empty means [ReadyURL].
	Ready string
}

// Where a proxy answers by default, on its node.
const (
	ReadyURL   = "http://127.0.0.1:10256/readyz"
	HealthURL  = "http://127.0.0.1:10256/healthz"
	MetricsURL = "http://127.0.0.1:10249/metrics"
)

// Daemon is a proxy that was started. Its methods may be called at the same time.
type Daemon struct {
	// Log is what the process writes to stderr.
	Log *Journal
	// Stdout is what it writes there.
	Stdout *Journal

	config Config
	cmd    *lab.Cmd
	done   chan struct{} // closed when it has ended
	err    error         // of Wait, once done is closed
}

// Start starts a proxy. It must be ended, by [Daemon.Stop] or [Daemon.Kill], and
// is killed at the latest when the node closes or ctx ends.
func Start(ctx context.Context, c Config) (*Daemon, error) {
	if c.Ready == "" {
		c.Ready = ReadyURL
	}
	d := &Daemon{config: c, Log: &Journal{}, Stdout: &Journal{}, done: make(chan struct{})}
	d.cmd = c.Host.Command(ctx, c.Program, c.Args...)
	d.cmd.Stdout, d.cmd.Stderr, d.cmd.SysProcAttr = d.Stdout, d.Log, c.Rights
	d.cmd.Env = append(os.Environ(), c.Env...)
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s on %s: %w", c.Program, c.Host, err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.done)
	}()
	return d, nil
}

// ErrEnded says that a proxy is not running any more.
var ErrEnded = errors.New("the proxy ended")

// pause is how long to wait before looking again.
const pause = 5 * time.Millisecond

// AwaitReady waits until the proxy says at its URL that it is ready.
func (d *Daemon) AwaitReady(ctx context.Context) error {
	return d.Await(ctx, "ready", func() error { return d.ok(d.config.Ready) })
}

// AwaitLog waits for a line that suits, from the n-th on, and returns it.
func (d *Daemon) AwaitLog(ctx context.Context, n int, what string, suits func(Entry) bool) (found Entry, err error) {
	err = d.Await(ctx, what, func() error {
		for _, e := range d.Log.Entries(n) {
			if suits(e) {
				found = e
				return nil
			}
		}
		return errors.New("no such line in the log")
	})
	return found, err
}

// Message is for [Daemon.AwaitLog]: the line's message is this.
func Message(text string) func(Entry) bool {
	return func(e Entry) bool { return e["msg"] == text }
}

// Await looks again and again until try has no objection. It gives up when ctx
// ends, or the proxy does; the error holds the end of the log.
func (d *Daemon) Await(ctx context.Context, what string, try func() error) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-d.done:
			if err = try(); err == nil { // its last line may be the one
				return nil
			}
			return fmt.Errorf("wait for %s: %w: %w\n%s", what, ErrEnded, errors.Join(d.err, err), d.Log.Tail())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w\n%s", what, ctx.Err(), err, d.Log.Tail())
		case <-ticker.C:
		}
	}
}

// Stop ends the proxy as an orderly system does and waits for it. A proxy that
// ended with another exit code than 0 is an error.
func (d *Daemon) Stop() error {
	if err := d.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return d.Wait()
}

// Kill ends the proxy at once, wherever it is, and waits until it is gone.
func (d *Daemon) Kill() {
	_ = d.Signal(syscall.SIGKILL) // it may have ended by itself
	<-d.done
}

// Signal sends the proxy a signal.
func (d *Daemon) Signal(s os.Signal) error { return d.cmd.Process.Signal(s) }

// Wait waits until the proxy ends and returns the error it ended with.
func (d *Daemon) Wait() error {
	<-d.done
	if d.err != nil {
		return fmt.Errorf("%w: %w\n%s", ErrEnded, d.err, d.Log.Tail())
	}
	return nil
}

// Done is closed when the proxy has ended.
func (d *Daemon) Done() <-chan struct{} { return d.done }
