package main

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

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/page"
	"kube-vmap/cmd/inspect/page/live"
	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/cmd/kubectl-vmap/explain"
)

func pageCommand(f *cluster.Flags) *cobra.Command {
	var port int
	cmd := &cobra.Command{
		Use:   "page [--port PORT]",
		Short: "Serve a page with all nodes and Services on this machine",
		Long: `Serve a page for a browser on this machine: all nodes and Services with live rates of
connections, problems of all nodes, and the path of a packet across nodes. It prints the
URL, and ends with Ctrl-C.

Nodes are asked only while a browser shows the page, each at most every 5 seconds, and
less often in large clusters.

The page listens on 127.0.0.1. Its URL has a token, since other users of this machine
can connect to that address, too: whoever has the URL sees what you see.`,
		Example: `  kubectl vmap page
  kubectl vmap page --context prod --port 8001`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Cluster()
			if err != nil {
				return err
			}
			config := page.Config{Cluster: live.New(execSource{c}), Context: f.Context(), Explain: explainer(f)}
			return serve(cmd.Context(), config, port, cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&port, "port", 0, "listen on this `port` of 127.0.0.1 instead of a free one")
	return cmd
}

// explainer returns the function that follows packets. Each question begins with what the
// API server has now.
func explainer(f *cluster.Flags) func(context.Context, page.ExplainRequest) (any, error) {
	return func(ctx context.Context, q page.ExplainRequest) (any, error) {
		e, err := explain.New(f, q.Family)
		if err != nil {
			return nil, err
		}
		return e.Explain(ctx, q.From, q.To)
	}
}

// execSource asks nodes by exec in their pods.
type execSource struct{ *cluster.Cluster }

// Tally implements [live.Source].
func (s execSource) Tally(ctx context.Context, n nodes.Node) (*nodestatus.Tally, error) {
	var t nodestatus.Tally
	return &t, s.JSON(ctx, n, nodestatus.TallySchema, &t, "status", "-o", "json", "--tally")
}

// Findings implements [live.Source].
func (s execSource) Findings(ctx context.Context, n nodes.Node) ([]findings.Finding, error) {
	var l findings.List
	const observed = 3 * time.Second // by default, in which the node is silent
	err := s.Patient(observed).JSON(ctx, n, findings.Schema, &l, "problems", "-o", "json")
	return l.Findings, err
}

// serve serves the page on 127.0.0.1 until the context ends, and prints its URL. Port 0 is
// any free one.
func serve(ctx context.Context, c page.Config, port int, out io.Writer) error {
	c.Path = "/" + rand.Text() + "/"
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	server := &http.Server{
		Handler: page.Handler(c), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
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
	if _, err := fmt.Fprintf(out, "http://%s%s\n", listener.Addr(), c.Path); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}
