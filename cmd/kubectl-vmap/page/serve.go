package page

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Serve serves the page on 127.0.0.1 until the context ends, and prints its URL. Port 0 is
// any free one.
func Serve(ctx context.Context, c Config, port int, out io.Writer) error {
	c.Token = rand.Text()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	server := &http.Server{
		Handler: Handler(c), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() { c.Cluster.Run(ctx) })
	running.Go(func() {
		<-ctx.Done()
		_ = server.Close()
	})
	if _, err := fmt.Fprintf(out, "http://%s/%s/\n", listener.Addr(), c.Token); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}
