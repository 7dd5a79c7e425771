package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
	"kube-vmap/sync/addresses"
	"kube-vmap/sync/manifests"
)

func diffCommand(stdout, stderr io.Writer) *cobra.Command {
	flags := config.NewFlags()
	cmd := &cobra.Command{
		Use:   "diff [--manifests DIR] [FLAGS]",
		Short: "Show what the kernel holds that it should not, and what it lacks",
		Long: `Compare the rule set in the kernel with the one that the kube-vmap which runs
here wants; or with the one that a folder of manifests leads to, with the flags
that the proxy has, whether one runs or not; if the one that runs is set
otherwise, that is told. Each line is an element, rule, chain or map: behind -
what is there and should not be, behind + what is missing. Nothing is changed.

The exit code is 0 if there is no difference, 1 if there is one, and 2 if it
could not be found out.`,
		Args: troubleArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			different, err := diff(cmd.Context(), flags, stdout, stderr)
			switch {
			case err != nil:
				return &exitError{exitTrouble, err}
			case different:
				return &exitError{code: 1}
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(troubleFlags)
	withFlags(cmd, flags)
	return cmd
}

// diff prints the difference, and reports whether there is one.
func diff(ctx context.Context, flags *config.Flags, stdout, stderr io.Writer) (bool, error) {
	c, err := lookOnly(flags)
	if err != nil {
		return false, err
	}
	var text bytes.Buffer
	if c.Manifests == "" {
		err = ask(ctx, c.StatusSocket(), pathDrift, &text)
	} else {
		err = diffManifests(ctx, c, &text, stderr)
	}
	if err != nil {
		return false, err
	}
	_, err = stdout.Write(text.Bytes())
	if text.Len() > 0 && c.Manifests != "" {
		hintSettings(ctx, c, stderr)
	}
	return text.Len() > 0, err
}

// hintSettings says in what the kube-vmap that runs here is set otherwise than this
// command, for the difference may be that.
func hintSettings(ctx context.Context, c *config.Config, stderr io.Writer) {
	var running bytes.Buffer
	if ask(ctx, c.StatusSocket(), pathConfig, &running) != nil {
		return // none runs, or none that tells
	}
	if others, err := c.Others(running.Bytes()); err == nil && len(others) > 0 {
		_, _ = fmt.Fprintf(stderr, "kube-vmap: the kube-vmap that runs here is set otherwise than this command, which may be the difference: it has %s\n",
			strings.Join(others, "; "))
	}
}

// lookOnly is the configuration of a command that changes nothing, whatever flags it
// shares with the proxy.
func lookOnly(flags *config.Flags) (*config.Config, error) {
	c, err := flags.Config()
	if err != nil {
		return nil, err
	}
	for flag, given := range map[string]bool{
		"--cleanup": c.Cleanup, "--init-only": c.InitOnly, "--write-config-to": c.WriteConfigTo != "",
	} {
		if given {
			return nil, fmt.Errorf("%s: this command changes nothing; give the flag to kube-vmap itself", flag)
		}
	}
	return c, nil
}

// ask copies what the process that runs here says.
func ask(ctx context.Context, socket, path string, w io.Writer) (err error) {
	answer, err := status.Ask(ctx, socket, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Close()) }()
	out := &outlet{Writer: w}
	if _, err := io.Copy(out, answer); out.err != nil {
		return fmt.Errorf("print the answer: %w", out.err)
	} else if err != nil {
		return fmt.Errorf("read the answer from %s: %w", socket, err)
	}
	return nil
}

// outlet keeps the error of what is written to, so that it is not taken for one of what
// is read.
type outlet struct {
	io.Writer
	err error
}

// Write implements [io.Writer].
func (o *outlet) Write(p []byte) (n int, err error) {
	n, err = o.Writer.Write(p)
	if err != nil {
		o.err = err
	}
	return n, err
}

// diffManifests compares the kernel with what manifests lead to.
func diffManifests(ctx context.Context, c *config.Config, w, stderr io.Writer) error {
	loop, err := loopConfig(c)
	if err != nil {
		return err
	}
	events, problems := manifests.Load(c.Manifests, loop.NodeName)
	if events == nil {
		return errors.Join(problems...)
	}
	if err := report(problems, stderr); err != nil {
		_, _ = fmt.Fprintln(stderr, "kube-vmap:", err) // there is no other place to say it
	}
	interfaces, err := nodeAddresses(ctx)
	if err != nil {
		return err
	}
	return withKernel(func(k *kernel.Kernel) error {
		if err := ifAble(k, &loop.Rules); err != nil {
			return err
		}
		have, err := k.Read()
		if err != nil {
			return fmt.Errorf("read the kernel: %w", err)
		}
		return sync.Compare(loop, events, interfaces, have).Differences(w)
	})
}

// nodeAddresses are those of the machine, as the proxy would follow them.
func nodeAddresses(ctx context.Context) ([]netip.Addr, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	list, failed := make(chan []netip.Addr), make(chan error, 1)
	source := addresses.New(addresses.Config{Log: slog.New(slog.DiscardHandler)})
	go func() { failed <- source.Run(ctx, list) }()
	select {
	case found := <-list:
		return found, nil
	case err := <-failed:
		return nil, fmt.Errorf("read the addresses of the node: %w", err)
	}
}
