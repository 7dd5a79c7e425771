package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/kernel"
)

// environment is the cluster, the folder of manifests, and kube-vmap.
type environment struct {
	lab     *lab.Lab
	pods    []*lab.Pod // the pods that serve
	clients []client
	folder  folder
	program string
	proxy   *proxy         // nil while it does not run
	kernel  *kernel.Kernel // reads the node's nf_tables
}

// newEnvironment builds everything except the proxy. The caller must close it. After
// an error nothing is left behind.
func newEnvironment(program string) (*environment, error) {
	s := &environment{program: program}
	if err := s.build(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the demo cluster: %w", err), s.close())
	}
	return s, nil
}

func (s *environment) build() (err error) {
	if s.folder, err = newFolder(); err != nil {
		return err
	}
	if s.lab, err = lab.New(lab.Options{Pods: 5}); err != nil {
		return err
	}
	last := len(s.lab.Pods) - 1
	s.pods = s.lab.Pods[:last]
	s.clients = []client{
		{"client pod", s.lab.Pods[last].Host},
		{"node", s.lab.Node.Host},
		{"outside", s.lab.Outside},
	}
	for i, a := range nginxLoadBalancer {
		f := model.Families[i]
		if err := s.lab.Outside.AddRoute(netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), s.lab.Node.Addr(f)); err != nil {
			return err
		}
	}
	for _, p := range s.pods {
		if _, err := p.Serve(model.TCP, 80); err != nil {
			return err
		}
	}
	for _, p := range s.pods[:2] {
		if _, err := p.Serve(model.UDP, 53); err != nil {
			return err
		}
	}
	s.kernel, err = kernel.Open(kernel.Config{NetNS: s.lab.Node.FD()})
	return err
}

// close removes everything that was built.
func (s *environment) close() error {
	var errs []error
	if s.proxy != nil {
		s.proxy.Kill()
	}
	if s.kernel != nil {
		errs = append(errs, s.kernel.Close())
	}
	if s.lab != nil {
		errs = append(errs, s.lab.Close())
	}
	return errors.Join(append(errs, s.folder.remove())...)
}

// start starts kube-vmap and waits until all manifests are programmed.
func (s *environment) start(ctx context.Context) (u update, err error) {
	if s.proxy, err = startProxy(s.lab.Node, s.program, s.folder); err != nil {
		return u, err
	}
	return s.proxy.await(ctx, applied, noChange)
}

// nft runs nft on the node and returns its output. Output on stderr is an error.
func (s *environment) nft(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := s.lab.Node.Command(ctx, "nft", args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil && stderr.Len() > 0 {
		err = errors.New("warning")
	}
	if err != nil {
		return "", fmt.Errorf("nft %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// names returns the names of pods.
func names(pods []*lab.Pod) []string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return list
}
