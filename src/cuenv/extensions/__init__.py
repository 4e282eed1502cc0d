"""The libraries that sit on torch: what their releases need of it, of CUDA and of the compiler."""
