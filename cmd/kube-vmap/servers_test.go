package main

import (
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/kube-vmap/serve"
)

// TestYieldedPortIsLeftToKubeProxy has a kube-proxy that listens on the port when it is yielded, and
// may start again at any time.
func TestYieldedPortIsLeftToKubeProxy(t *testing.T) {
	kubeProxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kubeProxy.Close() }()
	synctest.Test(t, func(t *testing.T) {
		p := &proxy{log: slog.New(slog.DiscardHandler)}
		yielded, ended := make(chan struct{}), make(chan error, 1)
		s := serve.New(serve.Config{Name: "health", Address: kubeProxy.Addr().String(), Log: p.log})
		go func() { ended <- p.serve(t.Context(), s, yielded) }()
		<-time.After(time.Minute)
		close(yielded)
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Hour):
			t.Error("an hour later it still tries to get the port")
		}
	})
}
