package kernels

import "github.com/purecuda/purecuda/runtime"

// Load loads the best image of the kernel that the device of the context and its driver
// accept. Closing the module of the kernel unloads it. The typed launches below are made
// from it.
func (s Source) Load(c *runtime.Context) (*runtime.Kernel, error) {
	images := make([]runtime.Image, len(s.Images))
	for i, image := range s.Images {
		images[i] = runtime.Image{Arch: image.Arch, Code: []byte(image.PTX)}
	}
	m, err := c.LoadModule(images...)
	if err != nil {
		return nil, err
	}
	k, err := m.Kernel(s.Name)
	if err != nil {
		m.Close()
		return nil, err
	}
	return k, nil
}

// kernel is what all typed kernels have in common. It is safe for concurrent use.
type kernel struct{ k *runtime.Kernel }

func load(c *runtime.Context, name string) (kernel, error) {
	s, _ := Lookup(name)
	k, err := s.Load(c)
	return kernel{k}, err
}

// Close unloads the kernel. It may be called twice.
func (k kernel) Close() error { return k.k.Module().Close() }

// launch runs the kernel with a grid and a block of one dimension.
func (k kernel) launch(s *runtime.Stream, grid, block uint32, args ...runtime.Arg) error {
	return k.k.Launch(s, runtime.LaunchConfig{Grid: runtime.Dim3{X: grid}, Block: runtime.Dim3{X: block}}, args...)
}

// multiprocessors is the number of them on the kernel's device.
func (k kernel) multiprocessors() int { return k.k.Module().Context().Device().Multiprocessors }
