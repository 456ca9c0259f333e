extern "C" __global__ void __launch_bounds__(128) softmax(twb_global<const float> X, twb_global<float> Y) {
  const int32_t bx = twb_block_x();
  const int32_t tx = twb_thread_x();
  float x_r[4];
  float top_r[1];
  float total_r[1];
  float top_part[1];
  float total_part[1];
  /* softmax.py:66: T.copy(X[bx * block, 0], x) */
  float X_v[4];
  twb_read<4>(X + bx * 512 + (tx >> 5) * 128 + (tx & 31) * 4, X_v);
  #pragma unroll
  for (int32_t r = 0; r < 4; r += 1) {
    x_r[r] = X_v[r];
  }
  top_part[0] = __builtin_nanf("");
  /* softmax.py:67: T.reduce_max(x, top, dim=1) */
  #pragma unroll
  for (int32_t r = 0; r < 4; r += 1) {
    top_part[0] = twb_max_f32(top_part[0], x_r[r]);
  }
  const float other = twb_shfl_xor(top_part[0], 16);
  top_part[0] = twb_max_f32(top_part[0], other);
  const float other_1 = twb_shfl_xor(top_part[0], 8);
  top_part[0] = twb_max_f32(top_part[0], other_1);
  const float other_2 = twb_shfl_xor(top_part[0], 4);
  top_part[0] = twb_max_f32(top_part[0], other_2);
  const float other_3 = twb_shfl_xor(top_part[0], 2);
  top_part[0] = twb_max_f32(top_part[0], other_3);
  const float other_4 = twb_shfl_xor(top_part[0], 1);
  top_part[0] = twb_max_f32(top_part[0], other_4);
  top_r[0] = top_part[0];
  /* softmax.py:68: for i, j in T.Parallel(block, cols): */
  #pragma unroll
  for (int32_t r = 0; r < 4; r += 1) {
    /* softmax.py:69: x[i, j] = T.exp2((x[i, j] - top[i]) * LOG2_E) */
    x_r[r] = twb_exp2_f32((x_r[r] - top_r[0]) * 1.442695f);
  }
  total_part[0] = 0.0f;
  /* softmax.py:70: T.reduce_sum(x, total, dim=1) */
  #pragma unroll
  for (int32_t r = 0; r < 4; r += 1) {
    total_part[0] = total_part[0] + x_r[r];
  }
  const float other_5 = twb_shfl_xor(total_part[0], 16);
  total_part[0] = total_part[0] + other_5;
  const float other_6 = twb_shfl_xor(total_part[0], 8);
  total_part[0] = total_part[0] + other_6;
  const float other_7 = twb_shfl_xor(total_part[0], 4);
  total_part[0] = total_part[0] + other_7;
  const float other_8 = twb_shfl_xor(total_part[0], 2);
  total_part[0] = total_part[0] + other_8;
  const float other_9 = twb_shfl_xor(total_part[0], 1);
  total_part[0] = total_part[0] + other_9;
  total_r[0] = total_part[0];
  /* softmax.py:72: total[i] = 1.0 / total[i] */
  total_r[0] = 1.0f / total_r[0];
  /* softmax.py:73: for i, j in T.Parallel(block, cols): */
  #pragma unroll
  for (int32_t r = 0; r < 4; r += 1) {
    /* softmax.py:74: x[i, j] = x[i, j] * total[i] */
    x_r[r] = x_r[r] * total_r[0];
  }
  /* softmax.py:75: T.copy(x, Y[bx * block, 0]) */
  float Y_v[4];
  #pragma unroll
  for (int32_t r = 0; r < 4; r += 1) {
    Y_v[r] = x_r[r];
  }
  twb_write<4>(Y + bx * 512 + (tx >> 5) * 128 + (tx & 31) * 4, Y_v);
}

