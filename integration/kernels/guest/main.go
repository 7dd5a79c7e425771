// Command guest is the user space of a machine that boots to run tests: the first
// process, and the program that the kernel calls to load modules.
//
//	kernel --> /init           mounts file systems, runs the suites of the plan, powers off
//	kernel --> /sbin/modprobe  the same program: loads the modules that provide an alias
//
// The output of the tests goes to a serial line of its own, to which the kernel
// does not write.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/kernels/plan"
)

func main() {
	if filepath.Base(os.Args[0]) == "modprobe" {
		if err := modprobe(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "modprobe:", err)
			os.Exit(1)
		}
		return
	}
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
	}
	unix.Sync()
	// Does not return. If it does, the kernel panics.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// start runs everything between boot and power off.
func start() error {
	if err := prepare(); err != nil {
		return err
	}
	p, err := plan.Read()
	if err != nil {
		return err
	}
	line, err := os.OpenFile(p.Talk, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("open the serial line to the host: %w", err)
	}
	failed := runAll(p, line)
	_, err = fmt.Fprintf(line, "%s%d\n", plan.EndMark, failed)
	return err
}

// runAll runs the suites and counts those that failed.
func runAll(p plan.Plan, out io.Writer) (failed int) {
	for _, s := range p.Suites {
		if !run(s, p.Settings, out) {
			failed++
		}
	}
	return failed
}
