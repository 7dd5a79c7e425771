package main

// platform is what differs between machines of several architectures.
type platform struct {
	suffix      string // of the kernels' folders
	qemu        string
	args        []string
	commandLine string // of the kernel: its console and its clock

	// The second serial line, for the output of tests: an option of qemu, and the device.
	talkOption, talkValue, talk string
}

var platforms = map[string]platform{
	"amd64": {
		qemu: "qemu-system-x86_64",
		// cmpxchg16b is disabled: qemu 7.2 emulates it such that Linux 6.12 crashes if a timer
		// interrupts it.
		args:        []string{"-cpu", "max,cx16=off"},
		commandLine: "console=ttyS0 tsc=reliable clocksource=tsc",
		talkOption:  "-serial", talkValue: "chardev:talk", talk: "/dev/ttyS1",
	},
	"arm64": {
		suffix: "-arm64",
		qemu:   "qemu-system-aarch64",
		// A processor of servers. With "max", qemu would spend time on authenticating pointers.
		args:        []string{"-machine", "virt,gic-version=3", "-cpu", "neoverse-n1"},
		commandLine: "console=ttyAMA0",
		talkOption:  "-device", talkValue: "pci-serial,chardev=talk", talk: "/dev/ttyS0",
	},
}
