package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/nodes"

	"k8s.io/client-go/rest"
)

// TestCommandsWaitForOthers has as many commands that run as --node-concurrency permits, whatever
// starts the next one.
func TestCommandsWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{REST: &rest.Config{Host: "127.0.0.1:1"}, Timeout: time.Second, Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		c.slots <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := c.Patient(time.Minute).Run(ctx, nodes.Node{Name: "node-1", Pod: "kube-vmap-node-1"})
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("it did not wait: %v", err)
		default:
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}
