package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/kernel"
)

// stage is what the story needs: the cluster, the folder, and the program.
type stage struct {
	lab     *lab.Lab
	pods    []*lab.Pod     // those that serve
	sites   []*http.Server // of these pods
	clients []client
	folder  folder
	program string
	proxy   *proxy         // nil when it does not run
	kernel  *kernel.Kernel // looks at the node's nf_tables past the proxy
}

// newStage makes everything but the proxy. It must be closed. After an error
// nothing is left of it.
func newStage(program string) (*stage, error) {
	s := &stage{program: program}
	if err := s.build(); err != nil {
		return nil, errors.Join(fmt.Errorf("set the stage: %w", err), s.close())
	}
	return s, nil
}

func (s *stage) build() (err error) {
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
	for i, a := range nginxBalancer {
		f := model.Families[i]
		if err := s.lab.Outside.AddRoute(netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), s.lab.Node.Addr(f)); err != nil {
			return err
		}
	}
	for _, p := range s.pods {
		site, err := serve(p.Host)
		if err != nil {
			return err
		}
		s.sites = append(s.sites, site)
	}
	for _, p := range s.pods[:2] {
		if _, err := p.Serve(model.UDP, 53); err != nil {
			return err
		}
	}
	s.kernel, err = kernel.Open(kernel.Config{NetNS: s.lab.Node.FD()})
	return err
}

// close removes everything, however much of it there is.
func (s *stage) close() error {
	var errs []error
	if s.proxy != nil {
		errs = append(errs, s.proxy.kill())
	}
	if s.kernel != nil {
		errs = append(errs, s.kernel.Close())
	}
	for _, site := range s.sites {
		errs = append(errs, site.Close())
	}
	if s.lab != nil {
		errs = append(errs, s.lab.Close())
	}
	return errors.Join(append(errs, s.folder.remove())...)
}

// start starts kube-vmap and waits until it has done what there is to do.
func (s *stage) start(ctx context.Context) (u update, err error) {
	if s.proxy, err = startProxy(s.lab.Node, s.program, s.folder); err != nil {
		return u, err
	}
	return s.proxy.await(ctx, applied, inOrder)
}

// nft runs nft on the node and returns what it prints. That it complains is an error.
func (s *stage) nft(ctx context.Context, args ...string) (string, error) {
	var out, complaints bytes.Buffer
	cmd := s.lab.Node.Command(ctx, "nft", args...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	if err == nil && complaints.Len() > 0 {
		err = errors.New("it complains")
	}
	if err != nil {
		return "", fmt.Errorf("nft %s: %w: %s", strings.Join(args, " "), err, complaints.String())
	}
	return out.String(), nil
}

// names of pods, in their order.
func names(pods []*lab.Pod) []string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return list
}
