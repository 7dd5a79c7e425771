package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/wait"
)

// KillAPIServer kills the API server. From then on its port refuses connections.
func (p *Plane) KillAPIServer() { p.api.kill() }

// RestartAPIServer starts the API server, after it was killed, on the same port
// and data, and waits until it is ready.
func (p *Plane) RestartAPIServer(ctx context.Context) (err error) {
	if p.api, err = p.run("kube-apiserver", p.apiFlags()); err != nil {
		return err
	}
	return p.await(ctx, p.api, p.apiReady)
}

// FreezeAPIServer stops the API server's process: its connections stay, without any data,
// until [Plane.ThawAPIServer].
func (p *Plane) FreezeAPIServer(ctx context.Context) error {
	if err := p.api.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the API server: %w", err)
	}
	// On a busy machine a thread may still run for a while.
	err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
		threads, err := procfs.AllThreads(p.api.cmd.Process.Pid)
		if err != nil {
			return false, err
		}
		for _, thread := range threads {
			if stat, err := thread.Stat(); err != nil || stat.State != "T" {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the API server has stopped: %w", err)
	}
	return nil
}

// ThawAPIServer lets a frozen API server continue.
func (p *Plane) ThawAPIServer() error { return p.api.cmd.Process.Signal(syscall.SIGCONT) }

// Compact makes etcd discard everything before its current revision, which it returns. A
// watch from an older one expires as soon as the API server has no cached events either.
func (p *Plane) Compact(ctx context.Context) (revision int64, err error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{etcdURL}, Context: ctx, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return p.options.Host.DialContext(ctx, "tcp", etcdAddr)
		})},
	})
	if err != nil {
		return 0, fmt.Errorf("connect to etcd: %w", err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	now, err := client.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("ask etcd for its revision: %w", err)
	}
	if _, err := client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return 0, fmt.Errorf("compact etcd to revision %d: %w", now.Header.Revision, err)
	}
	return now.Header.Revision, nil
}
